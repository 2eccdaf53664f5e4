// The header of what test programs share, compiled once: without doctest's, for some of them have a main of their own.
#include "tapestry/tapestry.hpp"
