package arm

import (
	"fmt"
	"strings"
)

// connect shows in each backend pool of a load balancer which interfaces say that they belong to it, as the API does.
func (c *Cloud) connect() {
	for _, balancer := range c.all("Microsoft.Network/loadBalancers") {
		for _, pool := range list(balancer["properties"], "backendAddressPools") {
			properties, _ := pool["properties"].(resource)
			if properties == nil {
				properties = resource{}
				pool["properties"] = properties
			}
			delete(properties, "backendIPConfigurations")
			if members := c.members(fmt.Sprint(pool["id"])); len(members) > 0 {
				properties["backendIPConfigurations"] = members
			}
		}
	}
}

// members returns the IP configurations of all interfaces that say that they belong to a pool.
func (c *Cloud) members(pool string) []any {
	var members []any
	for _, nic := range c.all("Microsoft.Network/networkInterfaces") {
		for _, configuration := range list(nic["properties"], "ipConfigurations") {
			for _, of := range list(configuration["properties"], "loadBalancerBackendAddressPools") {
				if strings.EqualFold(fmt.Sprint(of["id"]), pool) {
					members = append(members, resource{"id": configuration["id"]})
				}
			}
		}
	}
	return members
}

// list returns the parts of a resource under a key.
func list(of any, key string) []resource {
	fields, _ := of.(resource)
	values, _ := fields[key].([]any)
	var parts []resource
	for _, value := range values {
		if part, ok := value.(resource); ok {
			parts = append(parts, part)
		}
	}
	return parts
}

// AddMachine creates a running machine in an availability zone, with one network interface.
func (c *Cloud) AddMachine(name, zone, address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	nic := "Microsoft.Network/networkInterfaces/" + name + "-nic"
	c.put(nic, resource{"location": location, "properties": resource{
		"primary":        true,
		"virtualMachine": resource{"id": groupPath + "Microsoft.Compute/virtualMachines/" + name},
		"ipConfigurations": []any{resource{"name": "primary", "properties": resource{
			"primary": true, "privateIPAddress": address, "privateIPAddressVersion": "IPv4",
		}}},
	}})
	c.put("Microsoft.Compute/virtualMachines/"+name, resource{
		"location": location, "zones": []any{zone},
		"properties": resource{
			"hardwareProfile": resource{"vmSize": "Standard_D4s_v3"},
			"availabilitySet": resource{"id": groupPath + "Microsoft.Compute/availabilitySets/" + availabilitySet},
			"networkProfile": resource{"networkInterfaces": []any{
				resource{"id": groupPath + nic, "properties": resource{"primary": true}},
			}},
			"instanceView": view("running"),
		},
	})
}

// view is what an instance view says of a machine's power.
func view(power string) resource {
	return resource{"statuses": []any{
		resource{"code": "ProvisioningState/succeeded"}, resource{"code": "PowerState/" + power},
	}}
}

// Deallocate stops a machine and gives its host back.
func (c *Cloud) Deallocate(name string) error { return c.power(name, "deallocated") }

// Start starts a machine.
func (c *Cloud) Start(name string) error { return c.power(name, "running") }

func (c *Cloud) power(name, state string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	machine, found := c.resources["Microsoft.Compute/virtualMachines/"+name]
	if !found {
		return fmt.Errorf("there is no machine %q", name)
	}
	machine["properties"].(resource)["instanceView"] = view(state)
	return nil
}

// Delete deletes a machine with its network interface.
func (c *Cloud) Delete(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, found := c.resources["Microsoft.Compute/virtualMachines/"+name]; !found {
		return fmt.Errorf("there is no machine %q", name)
	}
	delete(c.resources, "Microsoft.Compute/virtualMachines/"+name)
	delete(c.resources, "Microsoft.Network/networkInterfaces/"+name+"-nic")
	c.connect()
	return nil
}
