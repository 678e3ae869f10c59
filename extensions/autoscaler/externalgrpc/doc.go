// Package externalgrpc is the protocol between the Cluster Autoscaler and who makes and removes its nodes, as generated code.
//
// The .proto file is ours, by the facts of the autoscaler's: names, numbers and types. See ADR 63.
package externalgrpc

//go:generate go -C ../../../dev/tools/protocol run . extensions/autoscaler/externalgrpc/externalgrpc.proto
