// Package mcp runs official MCP clients against official sellers of MCP tools, as whole programs, on the chain of a
// sandbox. It counts calls, results, runs of the paid tool, and debits.
//
// A small payer in the tests stands where purser will stand, to prove that the harness is right. It knows every
// dialect, and has neither limits nor books. Requests and answers as they were captured are in testdata.
package mcp
