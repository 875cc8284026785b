"""What several test modules need: images, toy runs, servers, work dirs."""
