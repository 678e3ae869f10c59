// Package nodegroup turns machines on and off in groups, as the Cluster Autoscaler asks by provider.NodeGroups.
//
// What a machine is to be, awake or asleep, is recorded in the API server before anything is done about it, and is read back
// before each command to a BMC. A machine is turned off only if it was asked for, never one whose node is ready and has no taint
// of the autoscaler, first by its operating system and after a while by force. It is asleep once its BMC has confirmed that it is
// off. Machines that were off for longest are turned on first, none before its last cycle is as old as the operator says.
//
// Each BMC is spoken to on a goroutine of its own: a BMC that hangs holds up no other machine.
//
// See ADR 39.
package nodegroup
