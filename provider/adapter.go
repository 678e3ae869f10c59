package provider

import (
	cloudprovider "k8s.io/cloud-provider"
)

// WithCapabilities returns a plugin that is cloud and offers these capabilities, instead of any that cloud may declare: for
// an author who wraps another author's plugin. All that the plugin does by itself it goes on to do, cloudprovider.InformerUser
// included. To add to what a plugin declares already, begin with CapabilitiesOf(cloud).
//
// What a plugin offers beyond cloudprovider.Interface, cloudprovider.InformerUser and Capable is reached by Unwrap.
func WithCapabilities(cloud cloudprovider.Interface, capabilities Capabilities) cloudprovider.Interface {
	wrapped := &capable{Interface: cloud, capabilities: capabilities}
	if user, ok := cloud.(cloudprovider.InformerUser); ok {
		return &informed{capable: wrapped, InformerUser: user}
	}
	return wrapped
}

// capable is a plugin with the capabilities that another author declares for it.
type capable struct {
	cloudprovider.Interface
	capabilities Capabilities
}

var _ Capable = (*capable)(nil)

// Capabilities returns the declared ones.
func (c *capable) Capabilities() Capabilities { return c.capabilities }

// Unwrap returns the plugin itself.
func (c *capable) Unwrap() cloudprovider.Interface { return c.Interface }

// informed is a capable that wants informers. It is a type of its own, because to have the method is to ask for them.
type informed struct {
	*capable
	cloudprovider.InformerUser
}
