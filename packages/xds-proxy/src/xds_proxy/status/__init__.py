"""What the relay knows: whether the control plane answers, and the delivery status of each type."""
