// Command cloud-controller-manager stands for Mooring's where a test is about building, and not about Kubernetes.
package main

import "github.com/mooring-ccm/mooring/ccm"

func main() { ccm.Main() }
