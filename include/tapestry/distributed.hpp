#pragma once

#include "tapestry/distributed/communicator.hpp"
