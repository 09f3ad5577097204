// <!-- Written by `kbhub setup --hooks`, which keeps it up to date; without this line it leaves the file alone. -->
// Runs kbhub's hooks in opencode 1.18.29 and later. Whatever fails is silence. Version 2 loads it, and runs nothing yet.
import { spawn } from "node:child_process"

const COMMAND = ["kbhub"]
const TOOLS = new Set(["apply_patch", "bash", "edit", "patch", "read", "write"])

function run(event, input, waits = true) {
  return new Promise((resolve) => {
    const failed = () => resolve("")
    try {
      const stdio = ["pipe", waits ? "pipe" : "ignore", "ignore"]
      const words = [...COMMAND.slice(1), "hook", event, "--client", "opencode"]
      const child = spawn(COMMAND[0], words, { cwd: input.cwd, stdio, detached: !waits, windowsHide: true })
      const timer = setTimeout(() => waits && child.kill(), 5000)
      let text = ""
      child.stdout?.on("data", (data) => (text += data))
      child.on("error", failed)
      child.on("close", () => {
        clearTimeout(timer)
        try {
          resolve(JSON.parse(text).hookSpecificOutput.additionalContext)
        } catch {
          resolve("")
        }
      })
      child.stdin.on("error", failed)
      child.stdin.end(JSON.stringify(input))
      if (!waits) child.unref(), timer.unref(), resolve("")
    } catch {
      resolve("")
    }
  })
}

async function server({ directory }) {
  const begin = new Map() // session → how it begins, until its first message
  const known = new Set()
  const subagents = new Set()
  const said = new Set() // sessions with a prompt since they were last idle
  const sent = (session_id, more) => ({ session_id, cwd: directory, ...more })
  return {
    event: async ({ event }) => {
      const { sessionID, info } = event.properties ?? {}
      if (event.type === "session.created") {
        begin.set(info.id, "startup")
        if (info.parentID) subagents.add(info.id)
      } else if (event.type === "session.compacted") {
        begin.set(sessionID, "compact")
      } else if (event.type === "session.idle" && said.delete(sessionID)) {
        run("session-end", sent(sessionID), false)
      }
    },
    "chat.message": async ({ sessionID }, { message, parts }) => {
      const texts = []
      const source = begin.get(sessionID) ?? (known.has(sessionID) ? "" : "resume")
      begin.delete(sessionID)
      known.add(sessionID)
      const inner = subagents.has(sessionID)
      if (source) texts.push(await run(inner ? "subagent-start" : "session-start", sent(sessionID, { source })))
      if (!inner) {
        said.add(sessionID)
        const prompt = parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text)
        texts.push(await run("prompt", sent(sessionID, { prompt: prompt.join("\n") })))
      }
      const text = texts.filter(Boolean).join("\n")
      const last = parts.at(-1)
      if (text && last) {
        parts.push({ id: `${last.id}k`, sessionID, messageID: message.id, type: "text", text, synthetic: true })
      }
    },
    "tool.execute.after": async ({ tool, sessionID, args }, output) => {
      if (!TOOLS.has(tool) || typeof output?.output !== "string") return
      const text = await run("tool", sent(sessionID, { tool_name: tool, tool_input: args }))
      if (text) output.output += `\n\n${text}`
    },
    "experimental.session.compacting": async ({ sessionID }) => {
      await run("compact", sent(sessionID))
    },
  }
}

export default { id: "kbhub", server, setup() {} }
