// Package provider is the small package that a provider author reads beside k8s.io/cloud-provider.
//
// The contract of a plugin is cloudprovider.Interface, unchanged: a plugin that knows nothing of this package runs as it
// is. A plugin that can do more, for example list all its instances with one call, says so by one method,
//
//	func (c *Cloud) Capabilities() provider.Capabilities
//
// whose fields are values: a nil field means that the plugin cannot. And a plugin that wraps its errors in the types of
// this package is retried when it makes sense, and only then.
//
// A call ends when its context does, with an error, unless it has the answer already. The caller has given up by then and
// calls again later: a call that goes on holds up the next, and one that returns as if it had been answered is believed.
//
// Package conformance checks whether a provider keeps to all this.
package provider
