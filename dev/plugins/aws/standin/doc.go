// Package standin is as much of AWS as the plugin needs for nodes and load balancers: EC2, both generations of Elastic Load
// Balancing, on loopback, by the protocols of the SDK. What it does not know it refuses, and remembers as a problem,
// so a scenario that rests on it fails.
package standin
