module gpushare/bench/peers/filter

go 1.21
