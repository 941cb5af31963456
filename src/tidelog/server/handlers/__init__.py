"""A module an API: ``handle(broker, context, request)``; a folder for each part of the broker they ask."""
