// Command reference-ccm is the reference cloud controller manager with the AWS plugin.
package main

import (
	_ "k8s.io/cloud-provider-aws/pkg/providers/v1" // registers the provider "aws"

	"github.com/mooring-ccm/mooring/dev/reference"
)

func main() { reference.Main() }
