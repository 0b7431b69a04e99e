"""For programs that reason: a server of the Model Context Protocol over runs, and what they should know before."""
