"""Messages of ROS 2 over DDS, without ROS."""
