module github.com/mooring-ccm/mooring

go 1.26.0

require k8s.io/cloud-provider v0.36.3
