// Command mooring-ccm is Mooring with the AWS plugin: the program that `mooring build` makes for a vendor.
package main

import (
	_ "k8s.io/cloud-provider-aws/pkg/providers/v1" // registers the provider "aws"

	"github.com/mooring-ccm/mooring/ccm"
)

func main() { ccm.Main() }
