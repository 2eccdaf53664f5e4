// NVRTC's second library, which must be there, too.
