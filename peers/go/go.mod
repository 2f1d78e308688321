module underpass-peer-go

go 1.22
