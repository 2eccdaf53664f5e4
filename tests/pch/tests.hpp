// The headers of most tests, compiled once. A test still includes what it uses: -Db_pch=false builds without this.
#include <doctest/doctest.h>

#include "expect.hpp"
#include "tapestry/tapestry.hpp"
