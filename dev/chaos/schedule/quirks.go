package schedule

import "github.com/mooring-ccm/mooring/dev/chaos/misbehavior"

// pluginQuirks are the quirks of dev/docs/quirks.md that are code within a plugin. That page says which operation stands for which quirk.
var pluginQuirks = []Kind{
	quirk(misbehavior.AddressesTwice, "the plugin names each address of an instance twice", 15),
	quirk(misbehavior.NoIP, "the plugin describes instances without an IP address", 15),
	quirk(misbehavior.BadType, "the plugin describes instances by a type that no label can have", 15),
	quirk(misbehavior.NoMetadata, "the plugin returns neither metadata nor an error", 15),
	quirk(misbehavior.Terse, "the plugin leaves out what the labels of a node show already", 15),
	quirk(misbehavior.SchemeOnly, "the plugin returns provider IDs that are a scheme and nothing else", 15),
	quirk(misbehavior.Namesakes, "the plugin lists two instances under each name", 15),
	// A denial that lasts is believed: see ADR 85.
	quirk(misbehavior.Denies, "the plugin denies every third instance that is asked for singly", 3),
	quirk(misbehavior.GoneByError, "the plugin says by an error that an instance is gone", 20),
	quirk(misbehavior.GoneIsStopped, "the plugin says of instances that are gone, and of failures, that they are shut down", 20),
	quirk(misbehavior.Ghosts, "the plugin returns metadata of instances that are gone", 20),
	quirk(misbehavior.OtherStatus, "the plugin shows another status of load balancers than it returned when it made them", 15),
	quirk(misbehavior.NoBalancer, "the plugin says of load balancers that they do not exist", 15),
	quirk(misbehavior.GoneUndeletable, "the plugin fails to delete load balancers that are gone", 20),
	quirk(misbehavior.OtherNotFound, "the plugin fails because a Secret is not found", 15),
	quirk(misbehavior.AskAgain, "the plugin asks to be asked again for load balancers", 15),
	quirk(misbehavior.EnsureFails, "the plugin fails to ensure load balancers, and updates their targets", 15),
	quirk(misbehavior.Untyped, "the plugin returns errors as texts only", 20),
	quirk(misbehavior.Words, "the plugin is refused for a quota, and says so in words only", 10),
	quirk(misbehavior.Deaf, "calls of the plugin hang, and ignore their context", 15),
}

func quirk(name, sentence string, mostSeconds int) Kind {
	return Kind{Name: name, Scope: All, Sentence: sentence, Required: []string{ArgFor}, weight: 1, make: during(mostSeconds)}
}
