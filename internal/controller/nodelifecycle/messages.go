package nodelifecycle

import "fmt"

// The reasons of the events on a Node.
const (
	// ReasonDeleting says that the node is being deleted. It is the reference's event, of type Normal.
	ReasonDeleting = "DeletingNode"
	// ReasonDeletingFailed says that the node could not be deleted. It is the reference's event, a warning.
	ReasonDeletingFailed = "DeletingNodeFailed"
	// ReasonHeld says that the node is kept although the cloud denies its instance. It is a warning.
	ReasonHeld = "NodeDeletionHeld"
	// ReasonWaitingForCloud says that the question whether the node's instance exists waits to be asked, and for what.
	ReasonWaitingForCloud = "WaitingForCloud"
	// ReasonCloudError says that the cloud does not answer for a node that is not ready. It is a warning.
	ReasonCloudError = "CloudError"
)

// unansweredMessage says that nothing is done about a node, and why.
func unansweredMessage(node string, err error) string {
	return fmt.Sprintf("Could not learn from the cloud whether the instance of node %s exists and runs, so that nothing is done about "+
		"the node: %v", node, err)
}

// deletingMessage says why a node is deleted.
func deletingMessage(node facts, cause cause) string {
	message := fmt.Sprintf("Deleting node %s: the cloud has no instance for it%s", node.name, lookedFor(node))
	switch cause {
	case causeAnnounced:
		return message + "; its removal was announced"
	case causeAcknowledged:
		return message + ", as confirmed by the annotation " + AnnotationConfirmDeletion
	default:
		return message
	}
}

// why says in words what makes an action necessary.
func why(action action) string {
	switch action.kind {
	case deleteNode:
		return deletingMessage(action.node, action.cause)
	case markHeld:
		return "the cloud denies the node's instance, and is not believed: " + string(action.reason)
	case clearHeld:
		return "the cloud does not deny the node's instance any more"
	case addTaint:
		return "the node's instance is shut down"
	case removeTaint:
		return "the node's instance is not shut down any more"
	default:
		return ""
	}
}

func lookedFor(node facts) string {
	if node.providerID == "" {
		return " under its name"
	}
	return fmt.Sprintf(" under its provider ID %q", node.providerID)
}

// heldMessage says why a node is kept, what will change that, and what an operator can do. It says nothing that changes from
// pass to pass, or else the condition would have to be written each time.
func heldMessage(node facts, reason HoldReason, settings Settings, journal string) string {
	why := map[HoldReason]string{
		HoldEveryInstanceGone: "But it knows the instance of no other node that it was asked for either, which is taken for a fault of " +
			"the cloud or of the credentials. The node is kept until the cloud knows an instance again",
		HoldRunningNodesDenied: "But it also denies instances of nodes that are ready, which is taken for a fault of the cloud. " +
			"The node is kept until the cloud knows them again",
		HoldLimitReached: fmt.Sprintf("But as many nodes as --node-deletion-limit=%s allows were deleted within %s. "+
			"The node is kept until deletions are allowed again", settings.Limit, settings.Window),
		HoldHistoryUnknown: fmt.Sprintf("But the record of deletions, the Lease %s, could not be read or written, so that it is not "+
			"known whether --node-deletion-limit allows this one. The node is kept until the record is there; the log says what is wrong", journal),
		HoldProviderIDUnknown: "But it denied the same provider ID while the node was ready and its kubelet reported, so that it may know the " +
			"instance by another ID. The node is kept until the cloud knows an instance by this one",
		HoldKubeletReports: "But its kubelet still reports, though not as ready, so that there is a machine. " +
			"The node is kept until its kubelet has been silent, or the cloud knows the instance again",
	}[reason]
	return fmt.Sprintf("The cloud says that it has no instance for this node%s. %s. If the instance is gone for good, confirm it: "+
		"kubectl annotate node %s %s=%s", lookedFor(node), why, node.name, AnnotationConfirmDeletion, node.uid)
}
