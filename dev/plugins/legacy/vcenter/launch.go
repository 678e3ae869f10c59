package vcenter

import (
	"fmt"

	"github.com/mooring-ccm/mooring/dev/plugins/compare"
)

// The Secret, in the namespace kube-system, from which the plugin takes its login, and the keys that it looks for.
const (
	Secret      = "vcenter-login"
	UserKey     = Host + ".username"
	PasswordKey = Host + ".password"
)

// controllerUUID is what the plugin takes for the UUID of the machine that it runs on, which is none of this vCenter.
const controllerUUID = "00000000-0000-0000-0000-000000000001"

// Launch is how the plugin finds the vCenter.
func (v *VCenter) Launch() compare.Launch {
	return compare.Launch{Config: fmt.Sprintf(`[Global]
secret-name = %s
secret-namespace = kube-system
insecure-flag = 1
vm-uuid = %s
[VirtualCenter "%s"]
port = %s
datacenters = %s
[Workspace]
server = %[3]s
datacenter = %[5]s
folder = vm
[Labels]
region = %[6]s
zone = %[7]s
`, Secret, controllerUUID, Host, v.endpoint.url.Port(), Datacenter, RegionCategory, ZoneCategory)}
}
