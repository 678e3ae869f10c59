package profiles

// known are the profiles. A number above the reference's number needs two sources: the plugin's code, which shows that its reads are safe
// at the same time, and the cloud's or the vendor's own documentation, which shows how many are borne.
var known = []Profile{
	{
		Name: "AWS", Package: "k8s.io/cloud-provider-aws/pkg/providers/v1", Module: "k8s.io/cloud-provider-aws", ReadAt: "v1.37.0",
		// Code: describe_instance_batch.go makes one request of up to 500 calls that come together; its caches have locks (instances.go,
		// zones.go, aws_sdk.go). Cloud: the bucket of a non-mutating action of EC2 holds 100 tokens,
		// https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html.
		InFlight: 100,
		Source:   "describe_instance_batch.go; Request throttling for the Amazon EC2 API",
	},
	{
		Name: "GCE", Package: "k8s.io/cloud-provider-gcp/providers/gce", Module: "k8s.io/cloud-provider-gcp/providers", ReadAt: "v0.28.2",
		// Code: reads share clients that are safe, and nodeZones has a lock (gce.go, gce_instances.go). Cloud: 1,500 read requests a minute
		// are 25 a second, https://cloud.google.com/compute/api-quota.
		InFlight: 25,
		Source:   "gce.go: nodeZonesLock; Compute Engine rate quotas",
	},
	{
		Name: "Azure", Package: "sigs.k8s.io/cloud-provider-azure/pkg/provider", Module: "sigs.k8s.io/cloud-provider-azure", ReadAt: "v1.35.0",
		// Code: caches have locks by entry (azure_vmss_cache.go, azure_vmss.go: lockMap). Cloud: the bucket for reads refills by 25 a second,
		// https://learn.microsoft.com/azure/azure-resource-manager/management/request-limits-and-throttling. Writes stay at one: the vendor's
		// program says "--concurrent-service-syncs is limited to 1 only" (cmd/cloud-controller-manager/app/options/options.go).
		// Each Ensure of a new leader writes backend pools and drops connections: https://github.com/kubernetes-sigs/cloud-provider-azure/issues/10224.
		InFlight:      25,
		EnsureChanged: true,
		Source:        "azure_vmss.go: lockMap; How Azure Resource Manager throttles requests",
	},
	{
		Name: "vSphere", Package: "k8s.io/cloud-provider-vsphere/pkg/cloudprovider/vsphere", Module: "k8s.io/cloud-provider-vsphere", ReadAt: "v1.37.0",
		// Code: instances.go reads nodeNameMap and nodeUUIDMap without the lock under which nodemanager.go writes them. Two reads at the same
		// time may end the process.
		Source: "instances.go: nodeNameMap and nodeUUIDMap without a lock",
	},
	{
		Name: "OpenStack", Package: "k8s.io/cloud-provider-openstack/pkg/openstack", Module: "k8s.io/cloud-provider-openstack", ReadAt: "v1.36.0",
		// No document of the vendor names a number for reads; docs/developers-guide.md recommends "--concurrent-service-syncs=1".
		Source: "docs/developers-guide.md",
	},
	{
		Name:    "hcloud",
		Package: "github.com/hetznercloud/hcloud-cloud-controller-manager/hcloud", Module: "github.com/hetznercloud/hcloud-cloud-controller-manager", ReadAt: "v1.35.0",
		// Code: internal/cache/cache.go holds its lock while it asks for all servers: more reads at the same time gain nothing.
		Source: "internal/cache/cache.go: ModeAll",
	},
	{
		Name:    "DigitalOcean",
		Package: "github.com/digitalocean/digitalocean-cloud-controller-manager/cloud-controller-manager/do",
		Module:  "github.com/digitalocean/digitalocean-cloud-controller-manager", ReadAt: "v0.1.68",
		// Code: droplets.go has no state but godo's client. Cloud: 250 requests a minute are four a second,
		// https://docs.digitalocean.com/reference/api/reference/rate-limits/ (header ratelimit-limit of its specification).
		InFlight: 4,
		Source:   "droplets.go; rate limits of the DigitalOcean API",
	},
	{
		Name:    "Linode",
		Package: "github.com/linode/linode-cloud-controller-manager/cloud/linode", Module: "github.com/linode/linode-cloud-controller-manager", ReadAt: "v0.9.8",
		// Code: services/instances.go answers from a cache of 15 seconds, and holds its lock while it fills it. More gain nothing.
		Source: "cloud/linode/services/instances.go: refreshInstances",
	},
	{
		Name:    "Scaleway",
		Package: "github.com/scaleway/scaleway-cloud-controller-manager/scaleway", Module: "github.com/scaleway/scaleway-cloud-controller-manager", ReadAt: "v0.36.2",
		// Code: instances.go has no state but the SDK's client. No document names how many reads the cloud bears.
		Source: "no number is documented",
	},
	{
		Name:    "OCI",
		Package: "github.com/oracle/oci-cloud-controller-manager/pkg/cloudprovider/providers/oci", Module: "github.com/oracle/oci-cloud-controller-manager", ReadAt: "v1.35.0",
		// Code: pkg/oci/client/utils.go refuses at once what its own limiter does not bear, with a bucket of rateLimitBucketDefault = 5 reads.
		// The vendor's manifest, manifests/cloud-controller-manager/oci-cloud-controller-manager.yaml, says "--concurrent-service-syncs=3".
		InFlight:           5,
		LoadBalancerWrites: 3,
		Source:             "pkg/oci/client/utils.go: rateLimitBucketDefault; manifests/cloud-controller-manager/oci-cloud-controller-manager.yaml",
	},
}
