"""The verbs of the API, a module per family. Each function takes the context and a Call and returns an Answer."""
