"""One unit in many inputs."""
