"""The ports of the control plane: who may call, what is answered over HTTP, which certificate."""
