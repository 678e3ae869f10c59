// Command reference-ccm is the reference cloud controller manager with the AWS plugin.
package main

import (
	"github.com/mooring-ccm/mooring/test/reference"
	_ "k8s.io/cloud-provider-aws/pkg/providers/v1" // registers the provider "aws"
)

func main() { reference.Main() }
