"""First derivatives by differences, and checks of those that users give."""
