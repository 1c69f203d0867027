// Package house holds no code. Its tests keep two house rules: arrows between packages point
// inwards, and comments are plain English (CONTRIBUTING.md).
package house
