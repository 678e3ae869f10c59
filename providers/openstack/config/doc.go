// Package config reads cloud.conf, the cloud config of OpenStack's own cloud controller manager (cloud-provider-openstack), as that
// reads it, and clouds.yaml. What that manager passes over in silence is an error here: unknown sections and options, and values that
// it would only find wrong once it uses them. All errors are reported at once.
//
// The options are those of "Get started with external openstack-cloud-controller-manager in Kubernetes" and of "Exposing applications
// using services of LoadBalancer type" in the documentation of cloud-provider-openstack.
package config
