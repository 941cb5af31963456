"""The storage engine. Each package has one concern, from the operating system (``fs``) to many logs (``manager``)."""
