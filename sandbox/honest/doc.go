// Package honest is the facilitator of the sandbox: it verifies and settles payments on any chain of the sandbox, refuses
// with the words of the reference facilitator, and never lies. The wire forms that it shares with the sandbox's seller
// are here as well.
package honest
