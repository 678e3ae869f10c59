module github.com/mooring-ccm/mooring/hack/protocol

go 1.26.0

replace github.com/mooring-ccm/mooring => ../..

tool (
	google.golang.org/grpc/cmd/protoc-gen-go-grpc
	google.golang.org/protobuf/cmd/protoc-gen-go
)

require (
	github.com/bufbuild/protocompile v0.14.1
	github.com/mooring-ccm/mooring v0.0.0-00010101000000-000000000000
	golang.org/x/tools v0.51.0
	google.golang.org/protobuf v1.36.12-0.20260120151049-f2248ac996af
)

require (
	golang.org/x/mod v0.41.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	google.golang.org/grpc/cmd/protoc-gen-go-grpc v1.6.2 // indirect
)
