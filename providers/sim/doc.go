// Package sim is the provider "sim": a cloudprovider.Interface for the simulated cloud of package cloudsim, which it calls
// over HTTP as any provider calls its cloud. Importing it registers it.
//
// It is also the provider to read before writing one: it offers every interface of k8s.io/cloud-provider, declares its
// capabilities, and returns the typed errors of package provider.
package sim
