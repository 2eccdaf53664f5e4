// Compiled once for all examples. An example still includes what it uses: -Db_pch=false builds without this.
#include <tapestry/tapestry.hpp>
