"""Options of compilation for what a test runs once."""

# Compiling is most of the time; what is compiled right does not depend on how well it is done.
QUICK = {"xla_backend_optimization_level": 0}
