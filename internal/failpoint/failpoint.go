// Package failpoint names the places where tests end the process, or switch a protection
// off. Programs that are built without the tag `failpoints` contain none of it: Here does
// nothing, Off is false, and the compiler leaves both out.
package failpoint
