"""The rules of the controller: from the image and a request to records and an answer. Pure but for random placement."""
