"""When a change is pushed and to which client next: debouncing, queue, throttle."""
