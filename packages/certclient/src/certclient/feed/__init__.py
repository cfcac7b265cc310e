"""How subscribers get the newest certificate and hear of each new one."""
