"""The relay's status: whether the control plane answers, and the delivery status of each type."""
