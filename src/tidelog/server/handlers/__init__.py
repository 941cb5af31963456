"""The request handlers, one module per API. Each module has ``handle(broker, context, request)``."""
