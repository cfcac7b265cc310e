"""The application's health, as a WorkloadEntry has it: checked, and reported upstream."""
