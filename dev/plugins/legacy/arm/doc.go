// Package arm is a loopback stand-in for the parts of Azure's resource manager that the Azure plugin calls: virtual machines of an
// availability set with their network interfaces, load balancers, public addresses and one network security group. It is a store
// of JSON resources with the API's URLs, identifiers and rules. What it does not know it refuses, and remembers.
package arm
