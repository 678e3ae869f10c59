package config

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateChange returns why a config that is right by itself must not follow another one in a running process: what would cost
// nodes by mistake.
//
// The inventory does not vanish. And a machine whose provider ID was made of its name does not get another one by the mere
// mention of its system UUID: its node has the old one, would belong to no machine, and be deleted. A machine that got a new
// mainboard, on the other hand, is a new one. Nor does a BGP speaker become another one.
func ValidateChange(before, after *CloudConfig) field.ErrorList {
	var errs field.ErrorList
	if before.Inventory.Enabled() && !after.Inventory.Enabled() {
		errs = append(errs, field.Required(field.NewPath("inventory"),
			"every node would be without a machine; restart to go on without an inventory"))
	}
	known := map[string]*Machine{}
	for i := range before.Inventory.Machines {
		known[before.Inventory.Machines[i].Name] = &before.Inventory.Machines[i]
	}
	for i := range after.Inventory.Machines {
		machine := &after.Inventory.Machines[i]
		was, ok := known[machine.Name]
		if !ok || was.ID == machine.ID || was.IDFrom == machine.IDFrom {
			continue
		}
		errs = append(errs, field.Invalid(field.NewPath(machine.Origin), field.OmitValueType{}, fmt.Sprintf(
			"the provider ID of %s would change from %s to %s: set its id to %q to keep it, or take the machine out first",
			machine.Name, was.ProviderID(), machine.ProviderID(), was.ID)))
	}
	return append(errs, validateSpeakerChange(before.BGP, after.BGP)...)
}

// validateSpeakerChange says what of a BGP section makes another speaker. All replicas read a change at about the same time, so all would end
// their sessions together, and routers would drop everything that is announced; which replicas announce is decided at the start. Replicas
// that are restarted one after the other take it over without that.
func validateSpeakerChange(before, after *BGP) field.ErrorList {
	if before == nil || after == nil {
		return nil
	}
	var errs field.ErrorList
	refuse := func(name string, was, is any) {
		if was != is {
			errs = append(errs, field.Invalid(field.NewPath("bgp", name), is, fmt.Sprintf("it is %v in the process that runs, and another one would "+
				"end all sessions at once; restart the replicas one after the other to take it over", was)))
		}
	}
	refuse("asn", before.ASN, after.ASN)
	refuse("routerID", before.RouterID, after.RouterID)
	refuse("listenPort", before.ListenPort, after.ListenPort)
	refuse("mode", before.Mode, after.Mode)
	refuse("restartTime", before.RestartTime.Duration.String(), after.RestartTime.Duration.String())
	return errs
}
