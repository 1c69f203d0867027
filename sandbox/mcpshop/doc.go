// Package mcpshop is a server of the Model Context Protocol that sells a tool, a resource and a prompt. It speaks every
// dialect in which x402 is spoken inside MCP, and verifies and settles with a facilitator of the sandbox.
//
// [Faults] lists how it can fail or lie. A test says which call meets which fault. Package hostile has the same for
// sellers of HTTP. Nothing here has value.
package mcpshop
