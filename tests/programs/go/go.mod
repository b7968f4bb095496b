module belljar.test/programs

go 1.24
