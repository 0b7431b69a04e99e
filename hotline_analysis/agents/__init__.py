"""Support for AI agents: a Model Context Protocol server over runs, and a guide for agents."""
