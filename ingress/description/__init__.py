"""The API's description: a document for programs, and a page for people that is made of it."""
