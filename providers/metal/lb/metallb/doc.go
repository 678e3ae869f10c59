// Package metallb has MetalLB's resources as the source of a cloud config of the provider metal. Source watches them, has package convert
// make a config of them, and hands that to the provider as the content of an object of the API server. choice.go decides which versions of
// the resources are in force, report.go tells of each resource what became of it, and secrets.go
// reads the passwords of routers.
//
// The types of MetalLB's own module are not used: package convert reads the JSON of the API server, as the tool reads files. The module
// requires over a hundred others, all that MetalLB's controller and speaker are made of.
package metallb
