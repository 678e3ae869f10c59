module example.com/mycloud

go 1.26.0

// The directive of a checkout: it has no effect in modules that import this one.
replace k8s.io/cloud-provider => ../cloud-provider

require k8s.io/cloud-provider v0.36.3
