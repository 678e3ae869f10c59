// Package wire implements the server's side of the two query protocols of AWS, in the SDK's own types: it reads requests into the
// SDK's inputs, and writes answers from its outputs. The SDK itself has only the client's side.
//
// The protocols are those of Smithy, https://smithy.io/2.0/aws/protocols: awsQuery for the load balancers, ec2Query for EC2.
package wire
