// Package approvals shows with whole programs that a held payment is made once, after a person has approved
// it, at exactly its terms, and in no other case: whatever ends the wait.
//
// Chain, facilitator and seller are those of the sandbox, in the test's process. PURSER_BIN names a purser
// that is built already.
package approvals
